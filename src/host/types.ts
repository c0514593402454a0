/**
 * The host side: the one typed door to all that needs root. Only serialisable values, sockets and streams cross it,
 * so that it can become a process of its own. Nothing above holds a host path of a sandbox.
 */
import type { Grant, Tier } from '../admission/grant.ts';
import type { Box, Capability } from '../isolation/types.ts';
import type { BuildOptions, BuildReport, ImageSummary } from '../workspace/image-store.ts';

export interface StartRequest {
  readonly id: string;
  readonly grant: Grant;
  /** Host paths that the operator named; copied and hashed before the sandbox starts. */
  readonly inputs: readonly string[];
}

export interface StartedBox {
  readonly box: Box;
  /** Who commands run as, inside. */
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string };
}

export interface ReconcileReport {
  /** Boxes of dead owners that were ended and removed. */
  readonly removed: readonly string[];
  /** Those that did not end in time; the next start tries again. */
  readonly stuck: readonly string[];
  readonly uidRanges: number;
}

export interface HostSide {
  /** name → digest of the images that are here. */
  images(): Promise<ReadonlyMap<string, string>>;
  listImages(): Promise<readonly ImageSummary[]>;
  /** Builds an image from its recipe, or says that it is there. @throws SallyportError of the workspace */
  buildImage(name: string, options: BuildOptions): Promise<BuildReport>;
  /** Starts a sandbox in the tier and says whether that worked. */
  exercise(tier: Tier): Promise<Capability>;
  /** @throws SallyportError of workspace and isolation */
  start(request: StartRequest): Promise<StartedBox>;
  /** Ends and removes what dead owners left (invariant 7); what a living one holds is not touched. */
  reconcile(): Promise<ReconcileReport>;
  /** Most tasks the host can have (kernel.pid_max). */
  pidMax(): number;
  /** Removes the empty cgroup folders of this home. */
  close(): Promise<void>;
}
