/** Budgets and bandwidths of the network column, in human units; numbers afterwards. */
import { amount } from './cells.ts';
import type { NetworkBandwidth, NetworkBudget } from './network.ts';
import { row } from './problems.ts';
import { bandwidthQuantities, budgetQuantities } from './quantities.ts';

export const budget = row({
  connections: amount(budgetQuantities.connections).exactOptional(),
  requests: amount(budgetQuantities.requests).exactOptional(),
  up: amount(budgetQuantities.upBytes).exactOptional(),
  down: amount(budgetQuantities.downBytes).exactOptional(),
})
  .refine(isNotEmpty, { error: 'saw {}; allowed: at least one of connections, requests, up, down' })
  .transform(
    ({ up, down, ...counts }): NetworkBudget => ({
      ...counts,
      ...(up === undefined ? {} : { upBytes: up }),
      ...(down === undefined ? {} : { downBytes: down }),
    }),
  );

export const bandwidth = row({
  up: amount(bandwidthQuantities.upBytesPerSecond).exactOptional(),
  down: amount(bandwidthQuantities.downBytesPerSecond).exactOptional(),
})
  .refine(isNotEmpty, { error: 'saw {}; allowed: up, down or both, in bytes per second' })
  .transform(
    ({ up, down }): NetworkBandwidth => ({
      ...(up === undefined ? {} : { upBytesPerSecond: up }),
      ...(down === undefined ? {} : { downBytesPerSecond: down }),
    }),
  );

function isNotEmpty(value: object): boolean {
  return Object.keys(value).length > 0;
}
