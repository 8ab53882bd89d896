import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import ipaddr from 'ipaddr.js'
import { withHome } from '../config/setting-types.ts'
import { literalAddress } from '../lib/public-address.ts'
import { HubError } from './hub-error.ts'

/** Where models come from and where they are kept: the variables of Hugging Face's own tools. */
export type HubSettings = Readonly<Awaited<ReturnType<typeof readHubSettings>>>

type Environment = Readonly<Record<string, string | undefined>>

const DEFAULT_ENDPOINT = 'https://huggingface.co'

/** @throws HubError for a variable that cannot be used. */
export async function readHubSettings(environment: Environment) {
  const caches = environment.XDG_CACHE_HOME || join(homedir(), '.cache')
  const home = withHome(environment.HF_HOME || join(caches, 'huggingface'))
  return {
    /** Ends with a slash. */
    endpoint: readEndpoint(environment),
    /** Sent only to the endpoint. */
    token: await readToken(environment, home),
    /** The cache that huggingface_hub, llama.cpp and vLLM share. */
    cacheRoot: withHome(environment.HF_HUB_CACHE || environment.HUGGINGFACE_HUB_CACHE || join(home, 'hub')),
    /** Whether to use only what the cache has. */
    isOffline: /^(1|on|yes|true)$/i.test(environment.HF_HUB_OFFLINE ?? ''),
  }
}

/**
 * The proxies of the environment, in the form that undici expects. As in curl and pip, a host without `http://` is
 * valid, ALL_PROXY replaces one that is missing or empty, and `socks5h` makes the proxy resolve names, which `socks5`
 * does here too. The names in NO_PROXY are left to undici.
 * @throws HubError that names the variable, not its value: that may hold a password.
 */
export function readProxies(environment: Environment) {
  const read = (...names: readonly string[]): string | undefined => {
    const name = names.find((one) => environment[one] !== undefined)
    const given = name === undefined ? '' : environment[name]!.trim()
    // Not undefined: undici would read the variable itself, and fail if it consists of spaces.
    if (given === '') return ''
    const text = given.includes('://') ? given.replace(/^socks5h:/i, 'socks5:') : `http://${given}`
    if (URL.canParse(text) && /^(https?|socks5?):$/.test(new URL(text).protocol)) return text
    throw new HubError(`${name}: expected the address of a proxy, such as http://host:3128`)
  }
  const either = (...names: readonly string[]) => read(...names) || read('all_proxy', 'ALL_PROXY')
  return { httpProxy: either('http_proxy', 'HTTP_PROXY'), httpsProxy: either('https_proxy', 'HTTPS_PROXY') }
}

/**
 * Whether the host is an address that NO_PROXY lists, such as ::1, or one in a network that it lists, such as
 * 10.0.0.0/8. undici supports only names, and parses `::1` as a host with a port.
 */
export function isWithoutProxy(hostname: string, environment: Environment): boolean {
  const literal = literalAddress(hostname)
  if (literal === null) return false
  const address = ipaddr.process(literal)
  return (environment.no_proxy ?? environment.NO_PROXY ?? '').split(/[,\s]+/).some((entry) => {
    const range = ipaddr.IPv6.isValid(entry) ? `${entry}/128` : entry
    if (!ipaddr.isValidCIDR(range)) return false
    const [network, bits] = ipaddr.parseCIDR(range)
    return network.kind() === address.kind() && address.match(network, bits)
  })
}

function readEndpoint(environment: Environment): URL {
  const name = environment.HF_ENDPOINT ? 'HF_ENDPOINT' : 'MODEL_ENDPOINT'
  const given = environment[name] || DEFAULT_ENDPOINT
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new HubError(`${name}: expected an address such as ${DEFAULT_ENDPOINT}, not '${given}'`)
  }
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

async function readToken(environment: Environment, home: string): Promise<string | null> {
  const file = withHome(environment.HF_TOKEN_PATH || join(home, 'token'))
  const given = environment.HF_TOKEN || (await readFile(file, 'utf8').catch(() => ''))
  const token = given.trim()
  if (token === '') return null
  if (!/^[\x21-\x7e]+$/.test(token)) {
    const problem = (place: string) => `${place}: expected a token such as hf_..., without spaces`
    const isFile = !environment.HF_TOKEN
    throw new HubError(problem(isFile ? file : 'HF_TOKEN'), {
      told: problem(isFile ? 'The file token of HF_HOME' : 'HF_TOKEN'),
    })
  }
  return token
}
