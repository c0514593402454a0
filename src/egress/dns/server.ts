/**
 * Serves the DNS sockets of a sandbox: datagrams on two sockets, and the connections to port 53 that the flow side hands over.
 * Questions past the rate go unanswered and are counted; a stub resolver asks again.
 */
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import { answerDns, type NameAnswer, type Question } from './answer.ts';

export interface DnsParts {
  readonly judge: (question: Question & { readonly host: NonNullable<Question['host']> }) => NameAnswer;
  /** Told of each question, after it was judged. `refused` also where the name is none. */
  readonly onQuestion: (question: Question, answered: boolean) => void;
  /** Told of questions that went unanswered. */
  readonly onDropped: (count: number) => void;
}

export interface DnsServer {
  /** Takes a connection whose destination was port 53. */
  serve(socket: Socket): void;
  close(): void;
}

/** See docs/limits.md. */
const questionsPerSecond = 1_000;
const tcpConnections = 64;
/** However it asks: one that asks a byte at a time is not kept alive by it. */
const tcpLifeMs = 20_000;
const tcpQuestions = 100;
const messageBytes = 4_096;

export function serveDns(fds: { readonly dns4: number; readonly dns6: number }, parts: DnsParts): DnsServer {
  const answer = limited(parts);
  const sockets = [listenOn('udp4', fds.dns4, answer), listenOn('udp6', fds.dns6, answer)];
  const streams = new Set<Socket>();
  return {
    serve: (socket) => {
      if (streams.size >= tcpConnections) {
        parts.onDropped(1);
        socket.on('error', () => undefined).resetAndDestroy();
        return;
      }
      streams.add(socket);
      socket.once('close', () => streams.delete(socket));
      serveStream(socket, answer);
    },
    close: () => {
      for (const socket of sockets) socket.close();
      for (const socket of streams) socket.destroy();
    },
  };
}

type Answer = (message: Buffer) => Buffer | undefined;

function limited(parts: DnsParts): Answer {
  let second = 0;
  let asked = 0;
  return (message) => {
    const now = Math.floor(performance.now() / 1000);
    if (now !== second) asked = 0;
    second = now;
    asked += 1;
    if (asked > questionsPerSecond) {
      parts.onDropped(1);
      return undefined;
    }
    return answerOne(message, parts);
  };
}

function answerOne(message: Buffer, { judge, onQuestion }: DnsParts): Buffer | undefined {
  let isAnswered = false;
  const answer = answerDns(message, (question) => {
    const found = judge(question);
    isAnswered = found.kind === 'address';
    return found;
  });
  if (answer.kind === 'none') return undefined;
  if (answer.question !== undefined) onQuestion(answer.question, isAnswered);
  return answer.bytes;
}

function listenOn(type: 'udp4' | 'udp6', fd: number, answer: Answer): DatagramSocket {
  const socket = createSocket(type);
  socket.bind({ fd, exclusive: true });
  socket.on('message', (message, from) => {
    const bytes = answer(message);
    if (bytes !== undefined) socket.send(bytes, from.port, from.address);
  });
  // an answer that cannot be sent (the asker has gone) is no reason to end
  socket.on('error', () => undefined);
  return socket;
}

/** RFC 7766: each message after its length in two bytes. One question at a time, in their order. */
function serveStream(socket: Socket, answer: Answer): void {
  let pending = Buffer.alloc(0);
  let answered = 0;
  const timer = setTimeout(() => socket.destroy(), tcpLifeMs).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.on('error', () => socket.destroy());
  socket.on('end', () => socket.end());
  socket.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 2) {
      const length = pending.readUInt16BE(0);
      if (length > messageBytes || answered >= tcpQuestions) return void socket.destroy();
      if (pending.length < 2 + length) return;
      const bytes = answer(pending.subarray(2, 2 + length));
      pending = pending.subarray(2 + length);
      answered += 1;
      if (bytes === undefined) return void socket.destroy();
      const header = Buffer.alloc(2);
      header.writeUInt16BE(bytes.length, 0);
      // one who asks and does not read is let go of
      if (!socket.write(Buffer.concat([header, bytes]))) return void socket.destroy();
    }
  });
  socket.resume();
}
