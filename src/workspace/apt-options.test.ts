/** What of the host's apt configuration reaches a build. */
import { expect, it } from 'vitest';
import { transportOptions } from './apt-options.ts';

it('takes proxies, timeouts and date checks, and nothing else', () => {
  const dump = [
    'APT::Install-Recommends "1";',
    'Acquire "";',
    'Acquire::http::Proxy "http://proxy.example:3128";',
    'Acquire::https::Timeout "30";',
    'Acquire::http "";',
    'Acquire::Check-Valid-Until "false";',
    'Acquire::Retries "3";',
    'Acquire::AllowInsecureRepositories "1";',
    'DPkg::Post-Invoke:: "rm -rf /";',
    'Acquire::Languages:: "de";',
  ].join('\n');
  expect(transportOptions(dump)).toEqual([
    'Acquire::http::Proxy "http://proxy.example:3128";',
    'Acquire::https::Timeout "30";',
    'Acquire::Check-Valid-Until "false";',
    'Acquire::Retries "3";',
  ]);
});
