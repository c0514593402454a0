/**
 * Every error a caller can meet: one row a code. Code, HTTP status, whether the same call may succeed
 * later, and what to do next. Codes are stable and never reused; `docs/errors.md` has a heading for each.
 */
export interface ErrorRow {
  /** HTTP status of the answer. */
  readonly status: number;
  /** True where the same call may succeed later without a change. */
  readonly retry: boolean;
  /** The caller's next step, one sentence. */
  readonly next: string;
}

export const errorTable = {
  // the caller's input
  invalid_request: { status: 400, retry: false, next: 'Correct the field that the message names.' },
  argv_too_large: { status: 400, retry: false, next: 'Put long data into a file or on standard input.' },
  path_invalid: { status: 400, retry: false, next: 'Give an absolute path without NUL, at most 4095 bytes.' },
  input_missing: { status: 400, retry: false, next: 'Give --input a file or folder that exists.' },
  input_unreadable: { status: 400, retry: false, next: 'Check the permissions and the kind of the input file.' },
  input_too_large: { status: 413, retry: false, next: 'Pass less input or use a class that allows more.' },
  body_too_large: { status: 413, retry: false, next: 'Send a smaller body.' },
  // who may
  unauthenticated: { status: 401, retry: false, next: 'Send the API key as "Authorization: Bearer <key>".' },
  host_not_allowed: { status: 421, retry: false, next: 'Address the daemon by the host name it listens on.' },
  origin_not_allowed: {
    status: 403,
    retry: false,
    next: 'Call the API from a program, not from a web page of another origin.',
  },
  // admission
  policy_unreadable: { status: 500, retry: false, next: 'Name a readable policy file with --policy.' },
  policy_invalid: { status: 500, retry: false, next: 'Correct the policy file at the place the message names.' },
  class_unknown: { status: 403, retry: false, next: 'Use a class from "sallyport matrix show".' },
  request_widens: { status: 403, retry: false, next: 'Ask for no more than the class allows, or use another class.' },
  // not there
  sandbox_not_found: { status: 404, retry: false, next: 'List the sandboxes with "sallyport ls".' },
  exec_not_found: { status: 404, retry: false, next: 'The exec has ended; its result is in the run or the log.' },
  run_not_found: { status: 404, retry: false, next: 'List the runs with "sallyport ls --runs".' },
  file_not_found: { status: 404, retry: false, next: 'Check the path with a list of its folder.' },
  route_not_found: { status: 404, retry: false, next: 'See /openapi.json for the routes.' },
  // state
  sandbox_ended: { status: 409, retry: false, next: 'Create a new sandbox; the reason is in its info.' },
  file_conflict: { status: 409, retry: false, next: 'See the message for what is in the way.' },
  file_denied: { status: 403, retry: false, next: 'Use a path that the sandbox user may reach.' },
  exec_failed: { status: 422, retry: false, next: 'Check the program name, the working folder and the permissions.' },
  // limits
  too_many_sandboxes: { status: 429, retry: true, next: 'End a sandbox or wait.' },
  too_many_streams: { status: 429, retry: true, next: 'Wait for a running exec of this sandbox to end.' },
  disk_full: { status: 507, retry: false, next: 'Remove files in the sandbox or use a class with more disk.' },
  artifact_limit: { status: 413, retry: false, next: 'Match fewer or smaller files, or use a class that allows more.' },
  // the platform
  tier_unavailable: {
    status: 503,
    retry: false,
    next: 'Run "sallyport doctor" on the host; no weaker tier is used instead.',
  },
  image_missing: {
    status: 503,
    retry: false,
    next: 'Build it on the host with "sallyport image build base", or run "scripts/setup".',
  },
  not_root: { status: 503, retry: false, next: 'Run sallyport as root: namespaces, mounts and cgroups need it.' },
  runtime_missing: { status: 503, retry: false, next: 'Install crun (apt-get install crun) or run "scripts/setup".' },
  native_missing: {
    status: 503,
    retry: false,
    next: 'Build the native parts: "npm run build:native" or "scripts/setup".',
  },
  start_failed: { status: 500, retry: true, next: 'See the message; "sallyport doctor" tests each part.' },
  init_protocol: { status: 500, retry: true, next: 'The sandbox was ended; create a new one.' },
  init_lost: { status: 500, retry: true, next: 'The sandbox was ended; create a new one.' },
  host_disk_full: { status: 507, retry: true, next: 'Free space on the host under SALLYPORT_HOME.' },
  output_folder: { status: 400, retry: false, next: 'Name a writable folder with --output.' },
  deadline: { status: 504, retry: true, next: 'Try again; if it repeats, "sallyport doctor" tests each part.' },
  daemon_unreachable: { status: 503, retry: true, next: 'Start the daemon with "sallyport up".' },
  daemon_running: { status: 409, retry: false, next: 'Use the running daemon, or another SALLYPORT_HOME.' },
  unavailable: { status: 503, retry: true, next: 'The daemon is stopping; connect to the next one.' },
  internal: { status: 500, retry: false, next: 'Report this with the daemon log.' },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;
