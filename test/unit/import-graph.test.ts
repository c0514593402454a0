/** The house stands: imports run downwards only, and only the host side touches what needs root. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const source = fileURLToPath(new URL('../../src', import.meta.url));

/** From the ground up; docs/architecture.md names the same floors. A room may use its own and any below its floor. */
const floors: readonly (readonly string[])[] = [
  ['errors'],
  ['units', 'digest', 'network'],
  ['linux', 'init', 'admission', 'store'],
  ['workspace'],
  ['isolation'],
  ['host'],
  ['egress'],
  ['sandbox'],
  ['artifacts'],
  ['run'],
  ['server'],
  ['cli'],
];
/** Rooms of the host side; `host` is its door. */
const hostSide: ReadonlySet<string> = new Set(['linux', 'workspace', 'isolation', 'host']);
/** Node modules that start programs or reach into the system, allowed to the host side only. */
const privilegedModules: ReadonlySet<string> = new Set(['node:child_process', 'node:worker_threads', 'node:module']);

interface Import {
  readonly from: string;
  readonly room: string;
  readonly target: string;
  readonly typeOnly: boolean;
}

const imports = sourceFiles(source).flatMap(importsOf);

describe('the import graph', () => {
  it('knows every room', () => {
    const rooms = new Set(readdirSync(source));
    expect([...rooms].filter((room) => floorOf(room) === -1)).toEqual([]);
    expect(imports.length).toBeGreaterThan(100);
  });

  it('runs downwards only', () => {
    const upward = ownImports().filter(({ room, to }) => room !== to && floorOf(to) >= floorOf(room));
    expect(upward.map(show)).toEqual([]);
  });

  it('has no file that imports itself in a circle', () => {
    expect(circles()).toEqual([]);
  });
});

describe('the privilege seam', () => {
  it('lets nothing above the host side use linux, workspace or isolation, but for their types', () => {
    const breaches = ownImports().filter(
      ({ room, to, typeOnly }) => !hostSide.has(room) && hostSide.has(to) && to !== 'host' && !typeOnly,
    );
    expect(breaches.map(show)).toEqual([]);
  });

  it('lets only the assembling CLI open the host side', () => {
    const openers = imports.filter(({ target, typeOnly }) => target.includes('host/host-side') && !typeOnly);
    expect(new Set(openers.map(({ room }) => room))).toEqual(new Set(['cli']));
  });

  it('lets only the host side start programs and load native code', () => {
    const breaches = imports.filter(({ room, target }) => privilegedModules.has(target) && !hostSide.has(room));
    expect(breaches.map(show)).toEqual([]);
  });

  it('finds what it looks for: the host side does use them', () => {
    expect(imports.some(({ room, target }) => room === 'isolation' && target === 'node:child_process')).toBe(true);
    expect(ownImports().some(({ room, to, typeOnly }) => room === 'isolation' && to === 'linux' && !typeOnly)).toBe(
      true,
    );
  });
});

function ownImports(): (Import & { readonly to: string })[] {
  return imports
    .filter(({ target }) => target.startsWith('.'))
    .map((edge) => ({ ...edge, to: roomOf(resolved(edge)) }));
}

function resolved({ from, target }: Import): string {
  return join(dirname(from), target);
}

function circles(): string[] {
  const edges = new Map<string, string[]>();
  for (const edge of imports.filter(({ target, typeOnly }) => target.startsWith('.') && !typeOnly)) {
    edges.set(edge.from, [...(edges.get(edge.from) ?? []), resolved(edge)]);
  }
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file))
      found.push([...path.slice(path.indexOf(file)), file].map((name) => relative(source, name)).join(' → '));
    if (path.includes(file) || done.has(file)) return;
    for (const next of edges.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of edges.keys()) visit(file, []);
  return found;
}

function importsOf(file: string): Import[] {
  const tree = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2023, true);
  const found: Import[] = [];
  const add = (target: string, typeOnly: boolean): number =>
    found.push({ from: file, room: roomOf(file), target, typeOnly });
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier))
      add(node.moduleSpecifier.text, isTypeOnly(node));
    if (
      ts.isExportDeclaration(node) &&
      node.moduleSpecifier !== undefined &&
      ts.isStringLiteral(node.moduleSpecifier)
    ) {
      add(node.moduleSpecifier.text, node.isTypeOnly);
    }
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [argument] = node.arguments;
      add(argument !== undefined && ts.isStringLiteral(argument) ? argument.text : '<computed>', false);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function isTypeOnly({ importClause }: ts.ImportDeclaration): boolean {
  if (importClause === undefined) return false;
  if (importClause.isTypeOnly) return true;
  const named = importClause.namedBindings;
  if (importClause.name !== undefined || named === undefined || !ts.isNamedImports(named)) return false;
  return named.elements.every((element) => element.isTypeOnly);
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => join(folder, name));
}

function roomOf(file: string): string {
  return relative(source, file).split('/')[0] ?? '';
}

function floorOf(room: string): number {
  return floors.findIndex((floor) => floor.includes(room));
}

function show({ from, target }: Import): string {
  return `${relative(source, from)} imports ${target}`;
}
