import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sha256Hex } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { loadPolicy, parsePolicy } from './policy.ts';

const shipped = new URL('../../policies/default.yaml', import.meta.url).pathname;

describe('loading a policy', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sallyport-policy-'));
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  async function failure(path: string): Promise<SallyportError> {
    const error: unknown = await loadPolicy(path).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error instanceof SallyportError) return error;
    throw new Error(`not a SallyportError: ${String(error)}`);
  }

  test('a file that is not there, or no regular file, is unreadable', async () => {
    const missing = join(folder, 'missing.yaml');
    await expect(failure(missing)).resolves.toMatchObject({
      code: 'policy_unreadable',
      message: `Cannot read policy ${missing}: no such file`,
    });
    expect((await failure(folder)).message).toBe(`Cannot read policy ${folder}: not a regular file`);
    expect((await failure('/dev/zero')).message).toBe('Cannot read policy /dev/zero: not a regular file');
    expect((await failure('a\0b')).code).toBe('policy_unreadable');
  });

  test.skipIf(process.getuid?.() === 0)(
    'a file without read permission is unreadable (root may read any)',
    async () => {
      const path = join(folder, 'closed.yaml');
      await writeFile(path, 'version: 1');
      await chmod(path, 0);
      expect((await failure(path)).message).toBe(`Cannot read policy ${path}: permission denied`);
    },
  );

  test.each([
    ['empty.yaml', '', 'the file is empty'],
    ['latin1.yaml', Buffer.from([0x76, 0xe9]), 'not UTF-8 text'],
    ['binary.yaml', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0]), 'a NUL byte: not a text file'],
    ['large.yaml', `# ${'x'.repeat(1_048_576)}`, 'larger than 1MiB; allowed: at most 1MiB'],
  ])('%s is invalid', async (name, content, problem) => {
    const path = join(folder, name);
    await writeFile(path, content);
    const error = await failure(path);
    expect(error.code).toBe('policy_invalid');
    expect(error.message).toContain(problem);
  });

  test('a byte order mark is allowed, and the digest is that of the file', async () => {
    const path = join(folder, 'mark.yaml');
    const bytes = Buffer.from(`\ufeff${await readFile(shipped, 'utf8')}`);
    await writeFile(path, bytes);
    expect((await loadPolicy(path)).sha256).toBe(sha256Hex(bytes));
  });

  test('the policy that ships has the four classes, closed by default', async () => {
    const policy = await loadPolicy(shipped);
    expect(policy.classes.map((job) => job.name)).toEqual(['analysis', 'coding', 'evaluation', 'build']);
    for (const job of policy.classes) {
      expect(job.isolation).toMatchObject({ tier: 'container', root: false });
      expect([job.network, job.packages, job.secrets]).toEqual([{ mode: 'deny' }, { mode: 'none' }, { mode: 'none' }]);
    }
    const atLeast = policy.classes.map((job) => job.isolation.atLeast);
    expect(atLeast).toEqual(['process', 'container', 'process', 'container']);
  });

  test('the example of docs/permission-matrix.md is a policy, and its refusal is quoted as it is', async () => {
    const page = await readFile(new URL('../../docs/permission-matrix.md', import.meta.url), 'utf8');
    const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
    const [job] = parsePolicy(example, 'docs').classes;
    expect(job).toMatchObject({ name: 'install', isolation: { root: true } });

    const mistaken = example
      .replace('network: deny', 'network: none')
      .replace('openFiles:', 'ram: 1GiB\n      openFiles:')
      .replace('wall: 15m', 'wall: 30');
    const quoted = / {4}(Cannot use policy policy\.yaml: [\s\S]*?)\n\n## /.exec(page)?.[1] ?? 'nothing quoted';
    expect(() => parsePolicy(mistaken, 'policy.yaml')).toThrow(quoted.replaceAll('\n    ', '\n'));
  });

  test('the network of docs/permission-matrix.md is one', async () => {
    const page = await readFile(new URL('../../docs/permission-matrix.md', import.meta.url), 'utf8');
    const [, example = ''] = /```yaml\n(network:\n[\s\S]*?)```/.exec(page) ?? [];
    const column = example.trimEnd().replaceAll('\n', '\n    ');
    const text = (await readFile(shipped, 'utf8')).replace('network: deny', column);
    const [job] = parsePolicy(text, 'docs').classes;
    expect(job?.network).toMatchObject({ mode: 'allow', phases: ['install', 'locked'] });
    expect(job?.network.mode === 'allow' && job.network.rules.map(({ id }) => id)).toEqual([
      ...['packages', 'code', 'model', 'telemetry', 'database', 'database-net', 'no-uploads'],
    ]);
  });
});
