/** What a connection needs of the egress it is part of. */
import type { BudgetMeter } from '../budget.ts';
import type { Judge } from '../judge.ts';
import type { EgressLog } from '../records.ts';
import type { Denial, Target } from '../types.ts';
import type { Dialled } from '../upstream.ts';
import type { TokenBucket } from './bandwidth.ts';
import type { Flow } from './flow.ts';

export interface FlowParts {
  readonly judge: Judge;
  readonly meter: BudgetMeter;
  readonly log: EgressLog;
  readonly http: HttpSide;
  readonly dial: (target: Target, port: number, signal: AbortSignal) => Promise<Dialled>;
  /** One per rule and direction, shared by its connections. */
  readonly bucketOf: (rule: string, direction: 'up' | 'down', bytesPerSecond: number) => TokenBucket;
  readonly onEnd: (flow: Flow) => void;
  readonly onFault: (error: unknown) => void;
}

/** Connections whose HTTP is understood. Both take the socket over, its first bytes put back into it. */
export interface HttpSide {
  servePlain(flow: Flow): void;
  serveOpened(flow: Flow): Promise<void>;
  /** Answers with the denial where the connection can carry it. @returns false when it cannot, and nothing was done */
  refuse(flow: Flow, denial: Denial, kind: 'http' | 'tls' | 'raw' | 'malformed' | 'more'): Promise<boolean>;
}
