/** What `workspace` builds and hands to `isolation`: folders on the host, described by value. */

export interface Image {
  readonly name: string;
  /** `sha256:<hex>` of the rootfs tar (base) or of the skeleton's recipe (host). */
  readonly digest: string;
  /** Read-only lower folders of the overlay, topmost first. Host paths: they never leave the host side. */
  readonly lowers: readonly string[];
  /** Host folders shown read-only at a path of the sandbox (only the `host` image: `/usr`). */
  readonly binds: readonly { readonly source: string; readonly target: string }[];
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string };
}

/** One input as it was hashed on the way in. */
export interface InputFile {
  /** Path below `/inputs`, as latin1-safe bytes (`Buffer`) and as text for display. */
  readonly path: string;
  readonly kind: 'file' | 'folder' | 'symlink';
  readonly bytes: number;
  readonly mode: number;
  /** Of the content (file) or of the target (symlink); absent for a folder. */
  readonly sha256?: string;
}

/** Inputs copied into a folder of the sandbox's own. */
export interface StagedInputs {
  /** Host folder, shown read-only at `/inputs`. */
  readonly folder: string;
  readonly files: readonly InputFile[];
  readonly bytes: number;
}

/** The writable layer. `tmpfs` counts as memory of the sandbox, `ext4` is a file on the host's disk. */
export type Upper =
  | { readonly kind: 'tmpfs'; readonly bytes: number; readonly inodes: number }
  | { readonly kind: 'ext4'; readonly bytes: number; readonly inodes: number; readonly file: string };
