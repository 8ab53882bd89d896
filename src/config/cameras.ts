import { z } from 'zod'

const TYPES = ['rtsp', 'mjpeg', 'jpeg', 'hls'] as const

/**
 * Which certificates of a camera are trusted: `verify` for those that are valid for its host, `any`, or one by its
 * fingerprint, `sha256:` and 32 bytes in hexadecimal, with or without colons.
 */
export const certificateRule = z
  .string()
  .regex(
    /^(?:verify|any|sha256:[\da-fA-F]{2}(?::?[\da-fA-F]{2}){31})$/,
    "expected verify, any, or sha256: and the certificate's fingerprint in hexadecimal",
  )

/** A camera in the configuration file. */
const camera = z.strictObject({
  name: z.string().regex(/^[\w.-]{1,64}$/, 'expected letters, digits, dots, dashes and underscores'),
  url: z.string(),
  type: z.enum(TYPES).optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  certificate: certificateRule.default('verify'),
  organisations: z.array(z.string()).optional(),
})

export const cameraList = z
  .preprocess(parseList, z.array(z.unknown(), 'expected a list of cameras, each with a name and a url'))
  .default([])

export interface CameraSetting {
  readonly name: string
  readonly type: (typeof TYPES)[number]
  /** Without user name and password. */
  readonly url: string
  readonly username: string | null
  readonly password: string | null
  readonly certificate: string
  /** Organisations whose watches may use it; null for all. */
  readonly organisations: readonly string[] | null
}

/** The environment only holds text. */
function parseList(given: unknown): unknown {
  if (typeof given !== 'string') return given
  try {
    return JSON.parse(given)
  } catch {
    return given
  }
}

/**
 * Reads the cameras, and substitutes environment variables, as in `${DOCK_PASSWORD}`.
 * @throws Error that says what is wrong, without secrets.
 */
export function readCameras(
  given: readonly unknown[],
  environment: Readonly<Record<string, string | undefined>>,
): CameraSetting[] {
  const names = new Set<string>()
  return given.map((one, i) => {
    const fail = (field: PropertyKey | undefined, message: string): never => {
      throw new Error(`camera ${i + 1}${field === undefined ? '' : `, ${String(field)}`}: ${message}`)
    }
    const parsed = camera.safeParse(one)
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      return fail(issue!.path[0], issue!.message)
    }
    const { name, type, organisations, certificate, ...texts } = parsed.data
    const expanded = (field: keyof typeof texts) =>
      texts[field]?.replace(/\$\{(\w+)\}/g, (_, variable: string) => {
        return environment[variable] ?? fail(field, `the variable ${variable} is not set`)
      }) ?? null
    if (names.has(name)) return fail('name', 'another camera has this name')
    names.add(name)
    const text = expanded('url')!
    const url = URL.canParse(text) ? new URL(text) : null
    if (url === null && /^(?:rtsps?|https?):\/\//i.test(text)) {
      return fail('url', 'expected a valid host and, optionally, a port of at most 65535')
    }
    const usual = url && usualCameraType(url)
    if (
      url === null ||
      usual === null ||
      url.hostname === '' ||
      (type !== undefined && (usual === 'rtsp') !== (type === 'rtsp'))
    ) {
      return fail(
        'url',
        'expected an address that begins with rtsp:// or rtsps://, or with http:// or https:// for the types mjpeg, jpeg and hls',
      )
    }
    const [user, secret] = [url.username, url.password].map((part) => {
      try {
        return decodeURIComponent(part)
      } catch {
        return fail('url', 'expected a user and a password in which % is written as %25')
      }
    })
    url.username = ''
    url.password = ''
    return {
      ...{ name, type: type ?? usual, url: url.href },
      username: expanded('username') ?? (user || null),
      password: expanded('password') ?? (secret || null),
      certificate,
      organisations: organisations ?? null,
    }
  })
}

/** The default protocol for a camera's URL; null if the URL is not a camera's. */
export function usualCameraType({ protocol, pathname }: URL): (typeof TYPES)[number] | null {
  if (/^rtsps?:$/.test(protocol)) return 'rtsp'
  if (!/^https?:$/.test(protocol)) return null
  if (/\.m3u8$/i.test(pathname)) return 'hls'
  return /\.jpe?g$/i.test(pathname) ? 'jpeg' : 'mjpeg'
}
