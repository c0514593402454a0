/**
 * The driver of the tiers that an OCI runtime starts: `process` (the host's own read-only /usr) and `container` (an
 * image). It builds a box's root in a mount namespace of the launcher's own, hands it to the runtime, and takes
 * back everything when PID 1 is gone. Nothing it makes is visible in the host's mount table.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Tier } from '../admission/grant.ts';
import { asSallyportError, SallyportError } from '../errors/error.ts';
import { openInitClient } from '../init/client.ts';
import { addon, nativeFile, socketPair } from '../linux/addon.ts';
import { followPacketLog } from '../linux/netfilter-log.ts';
import { openProcess } from '../linux/process.ts';
import { hardOpenFiles } from '../linux/rlimit.ts';
import type { Cgroup, CgroupTree, ProcessHandle } from '../linux/types.ts';
import { stageInputs } from '../workspace/inputs.ts';
import type { Image, StagedInputs } from '../workspace/types.ts';
import { makeUpper, planUpper } from '../workspace/upper.ts';
import { type BoxFolder, boxFolder, makeBoxFolder, readPid, removeBoxFolder } from './box-folder.ts';
import { within } from './deadline.ts';
import { exerciseGrant } from './exercise-grant.ts';
import type { HostFolders } from './host-folders.ts';
import { launchArguments } from './launch-arguments.ts';
import { renderOciConfig } from './oci-config.ts';
import { thisOwner } from './owner.ts';
import { type OciRuntime, type RuntimeName, runtimes, runtimeVersion } from './runtime.ts';
import { seccompProfile } from './seccomp.ts';
import type { TrapNetns } from './trap/netns.ts';
import type { NetnsPool } from './trap/netns-pool.ts';
import { dropLogGroup } from './trap/trap-rules.ts';
import type { Box, BoxLimit, BoxSpec, Capability, Driver } from './types.ts';
import { takeUidRange, type UidRange } from './uid-range.ts';

const startDeadlineMs = 20_000;
const endDeadlineMs = 10_000;
const stderrBytes = 8 * 1024;
/** Between two reads of a sandbox's refused packets: at most some 4,000 a second are told one by one. */
const packetPauseMs = 100;

export interface OciDriverOptions {
  readonly home: string;
  readonly tier: Tier;
  readonly runtime: RuntimeName;
  readonly cgroups: CgroupTree;
  readonly folders: HostFolders;
  readonly netnsPool: NetnsPool;
}

/** What a box holds on the host, in the order it was taken; `end` gives it back in the reverse order. */
interface Held {
  readonly folder: BoxFolder;
  readonly uids: UidRange;
  readonly cgroup: Cgroup;
  readonly netns: TrapNetns;
}

export function openOciDriver(options: OciDriverOptions): Driver {
  const runtime = runtimes[options.runtime];
  let version: Promise<string> | undefined;
  const knownVersion = (): Promise<string> => {
    // a failed look is not kept: the runtime may be installed meanwhile
    version ??= runtimeVersion(runtime.name).catch((error: unknown) => {
      version = undefined;
      throw error;
    });
    return version;
  };
  const start = async (spec: BoxSpec): Promise<Box> => startBox(options, runtime, await knownVersion(), spec);
  return { tier: options.tier, start, exercise: (image) => exercise(options.tier, runtime, image, start) };
}

async function startBox(options: OciDriverOptions, runtime: OciRuntime, version: string, spec: BoxSpec): Promise<Box> {
  const held = await hold(options, spec.id);
  try {
    const hideMount = runtime.refusesHybridCgroups ? options.cgroups.unifiedMount : undefined;
    const upper = await makeUpper(planUpper(spec.grant.limits, held.folder.path), held.uids.base);
    writeFileSync(held.folder.config, JSON.stringify(ociConfigOf(options, held, spec)), { mode: 0o600 });
    const inputs = await stage(held.folder, spec);
    const command = launchArguments({
      folder: held.folder,
      mountPoints: options.folders,
      image: spec.image,
      upper,
      uids: held.uids,
      runtime,
      parentPid: process.pid,
      allowSetuid: spec.grant.isolation.root,
      ...(inputs === undefined ? {} : { inputs: inputs.folder }),
      ...(hideMount === undefined ? {} : { hideMount }),
    });
    const channel = await launch(
      command,
      held.netns.netnsFd,
      `Cannot start sandbox ${spec.id} in tier ${options.tier}`,
    );
    const facts = { inputs: inputs?.files ?? [], runtime: { name: runtime.name, version } };
    return boxOf(held, channel, openBoxProcess(held.folder, channel), facts);
  } catch (error) {
    // what cannot be given back now is found by a later start; why this one failed is what the caller needs
    await giveBack(held).catch(() => undefined);
    throw asStartError(error, options.tier, spec.id);
  }
}

async function hold(options: OciDriverOptions, id: string): Promise<Held> {
  const owner = thisOwner();
  const folder = boxFolder(options.home, id);
  let netns: TrapNetns | undefined;
  try {
    netns = await options.netnsPool.take();
    makeBoxFolder(folder, owner);
    return { folder, uids: takeUidRange(options.folders.uidRanges, owner), cgroup: options.cgroups.sandbox(id), netns };
  } catch (error) {
    netns?.close();
    removeBoxFolder(folder);
    throw asStartError(error, options.tier, id);
  }
}

async function stage(folder: BoxFolder, { inputs, grant }: BoxSpec): Promise<StagedInputs | undefined> {
  if (inputs.length === 0) return undefined;
  return stageInputs(inputs, folder.inputs, { bytes: grant.files.inputBytes, files: grant.files.inputFiles });
}

function ociConfigOf(options: OciDriverOptions, held: Held, spec: BoxSpec): object {
  const root = spec.grant.isolation.root;
  return renderOciConfig({
    id: spec.id,
    hostname: 'sandbox',
    rootfs: options.folders.rootfs,
    netns: options.folders.netns,
    root,
    tier: options.tier,
    limits: spec.grant.limits,
    uidMap: { base: held.uids.base, count: held.uids.count },
    cgroupsPath: held.cgroup.ociPath,
    hasSwapLimit: options.cgroups.hasSwapLimit,
    hasSocketLimit: options.cgroups.hasSocketLimit,
    hostOpenFiles: hardOpenFiles(),
    seccomp: seccompProfile(root, process.arch === 'arm64' ? 'arm64' : 'x64'),
  });
}

/** Runs the launcher until the runtime has started PID 1 and left. @returns the host's end of init's stdin and stdout */
async function launch(command: readonly string[], netns: number, what: string): Promise<Socket> {
  const [ours, theirs] = socketPair();
  const channel = new Socket({ fd: ours, readable: true, writable: true });
  try {
    const child = spawn(nativeFile('launch'), command, {
      stdio: [theirs, theirs, 'pipe', netns],
      env: { PATH: process.env['PATH'] },
    });
    const stderr = collect(child.stderr);
    const code = await exitOf(child, what);
    if (code !== 0) throw new SallyportError('start_failed', `${what}: ${stderr() || `launcher ended with ${code}`}`);
    return channel;
  } catch (error) {
    channel.destroy();
    throw error;
  } finally {
    closeSync(theirs);
  }
}

/** @returns its exit status; one that does not end in time is killed. @throws SallyportError `deadline` */
async function exitOf(child: ChildProcess, what: string): Promise<number | null> {
  const exit = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.once('exit', resolve);
  });
  exit.catch(() => undefined);
  try {
    return await within(exit, startDeadlineMs, what);
  } finally {
    if (child.exitCode === null) child.kill('SIGKILL');
    // init keeps the write end of stderr: without this the pipe would keep the daemon's event loop alive
    child.stderr?.destroy();
  }
}

function collect(stream: NodeJS.ReadableStream | null): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream?.on('data', (chunk: Buffer) => {
    if (bytes >= stderrBytes) return;
    bytes += chunk.length;
    chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).subarray(0, stderrBytes).toString('utf8').trim();
}

/** PID 1 as a handle; when it has ended already, its channel goes with it. */
function openBoxProcess(folder: BoxFolder, channel: Socket): ProcessHandle {
  try {
    const pid = readPid(folder);
    if (pid !== undefined) return openProcess(pid);
    throw new SallyportError('start_failed', `Cannot start sandbox ${folder.id}: the runtime left no pid`);
  } catch (error) {
    channel.destroy();
    throw error;
  }
}

function boxOf(held: Held, channel: Socket, init: ProcessHandle, facts: Pick<Box, 'inputs' | 'runtime'>): Box {
  let ending: Promise<void> | undefined;
  const { netns } = held;
  const unwatch: (() => void)[] = [];
  const end = async (): Promise<void> => {
    for (const stop of unwatch.splice(0)) stop();
    channel.destroy();
    init.signal(9);
    await within(init.ended, endDeadlineMs, `Cannot end sandbox ${held.folder.id}`);
    init.close();
    await giveBack(held);
  };
  return {
    id: held.folder.id,
    channel,
    ...facts,
    exited: init.ended,
    takeTrap: () => netns.takeSockets(),
    destinationOf: (fd) => addon().originalDestination(fd),
    onRefusedPackets: (onPackets) =>
      unwatch.push(followPacketLog(netns.logFd, dropLogGroup, { onPackets, pauseMs: packetPauseMs })),
    onLimit: (listener: (limit: BoxLimit) => void) => unwatch.push(held.cgroup.watch(listener)),
    stats: () => held.cgroup.usage(),
    freeze: () => held.cgroup.freeze(),
    thaw: () => held.cgroup.thaw(),
    end: () => {
      // what failed can be tried again: a disk that is slow to let go is no reason to keep a sandbox for ever
      ending ??= end().catch((error: unknown) => {
        ending = undefined;
        throw error;
      });
      return ending;
    },
  };
}

/** The cgroup first, and nothing else before it is gone: whoever still runs must not lose his uid range to another. */
async function giveBack(held: Held): Promise<void> {
  await held.cgroup.kill(endDeadlineMs);
  await held.cgroup.remove();
  held.netns.close();
  try {
    removeBoxFolder(held.folder);
  } finally {
    held.uids.release();
  }
}

async function exercise(
  tier: Tier,
  runtime: OciRuntime,
  image: Image,
  start: (spec: BoxSpec) => Promise<Box>,
): Promise<Capability> {
  const began = performance.now();
  try {
    const version = await runtimeVersion(runtime.name);
    const box = await start({
      id: `probe-${process.pid}-${Date.now().toString(36)}`,
      grant: exerciseGrant(tier, image),
      image,
      inputs: [],
    });
    try {
      await runTrue(box, image);
      return { tier, available: true, runtime: runtime.name, version, startMs: performance.now() - began };
    } finally {
      await box.end();
    }
  } catch (error) {
    return { tier, available: false, reason: asSallyportError(error).message };
  }
}

/** "Available" means that a command ran in it and said so (invariant 5). */
async function runTrue(box: Box, image: Image): Promise<void> {
  const client = openInitClient(box.channel, { lifetimeMs: startDeadlineMs, readyDeadlineMs: startDeadlineMs });
  await client.ready;
  const stream = client.spawn({
    identity: { uid: image.user.uid, gid: image.user.gid, groups: [] },
    argv: ['true'],
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    stdin: false,
    killTreeOnExit: true,
    root: false,
    openFiles: 256,
  });
  stream.discard();
  const { outcome } = await within(stream.exit, startDeadlineMs, 'Cannot exercise the tier: "true" did not end');
  if (outcome.kind === 'exited' && outcome.code === 0) return;
  throw new SallyportError('start_failed', `Cannot exercise the tier: "true" ended with ${JSON.stringify(outcome)}`);
}

function asStartError(error: unknown, tier: Tier, id: string): SallyportError {
  if (error instanceof SallyportError) return error;
  const { code } = error as NodeJS.ErrnoException;
  const message = `Cannot start sandbox ${id} in tier ${tier}: ${error instanceof Error ? error.message : String(error)}`;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new SallyportError('host_disk_full', message, { cause: error });
  return new SallyportError('start_failed', message, { cause: error });
}
