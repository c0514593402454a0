/** Gives an action a client of the daemon, and closes it however the action ends. */
import { ApiClient } from '../api/client.ts';
import type { Context } from '../context.ts';
import { endpointOf } from '../home.ts';
import type { Options } from '../options.ts';

export async function withClient<Value>(
  context: Context,
  options: Options,
  action: (client: ApiClient) => Promise<Value>,
): Promise<Value> {
  const client = new ApiClient(endpointOf(context, options));
  try {
    return await action(client);
  } finally {
    client.close();
  }
}
