/** Runs in the daemon's namespace: what comes in on the listening socket at fd 3, which is the host's, goes to a port here. */
import { connect, createServer } from 'node:net';

const port = Number(process.argv[2]);

createServer({ allowHalfOpen: true }, (outer) => {
  const inner = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
  outer.pipe(inner).pipe(outer);
  outer.on('error', () => inner.destroy()).on('close', () => inner.destroy());
  inner.on('error', () => outer.destroy()).on('close', () => outer.destroy());
}).listen({ fd: 3 });

process.stdin.on('end', () => process.exit()).resume();
