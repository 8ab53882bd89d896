import { readFile } from 'node:fs/promises'

export async function version(): Promise<string> {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}

/** This program's name for other servers. Some reject requests without one. */
export async function userAgent(): Promise<string> {
  return `Lookout/${await version()} (self-hosted inference server)`
}
