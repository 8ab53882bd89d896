import { readFile } from 'node:fs/promises'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { ConfigError } from '../config/config.ts'

/**
 * Reads the arguments of a command.
 * @param operands their names in the command's help; all are required. Null for any number of operands.
 * @param optional further operands that may be omitted.
 * @throws ConfigError
 */
export function readOptions<Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Options,
  operands: readonly string[] | null = [],
  optional: readonly string[] = [],
) {
  const parsed = parse(args, options)
  if (operands !== null) checkOperands(parsed.positionals, operands, optional)
  return parsed
}

/** @throws ConfigError for operands that are missing or too many. */
export function checkOperands(
  given: readonly string[],
  operands: readonly string[],
  optional: readonly string[] = [],
): void {
  const missing = operands[given.length]
  if (missing !== undefined) throw new ConfigError(`${missing} is missing; see --help`)
  const spare = given[operands.length + optional.length]
  if (spare !== undefined) throw new ConfigError(`'${spare}' is one argument too many; see --help`)
}

function parse<Options extends ParseArgsOptionsConfig>(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args: joinNegatives(args), allowPositionals: true, options })
  } catch (error) {
    // Node's message continues with advice on arguments that begin with a dash.
    const [message] = (error as Error).message.split('. To specify')
    throw new ConfigError(`${message}; see --help`)
  }
}

/** Joins `--storage -1` to `--storage=-1`: a negative number is not an option. The command validates the value. */
function joinNegatives(args: readonly string[]): string[] {
  const joined: string[] = []
  for (const arg of args) {
    const option = joined.at(-1)
    if (/^-\d/.test(arg) && option !== undefined && /^--[^=]+$/.test(option))
      joined[joined.length - 1] = `${option}=${arg}`
    else joined.push(arg)
  }
  return joined
}

/** The text of a small file that an option or an operand names, without a byte order mark. @throws ConfigError */
export async function readText(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(`${path} cannot be read: ${error.code}`)
  })
  return text.replace(/^\ufeff/, '')
}

/** `a, b or c`. */
export function anyOf(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** The value of an option that takes one of several words; undefined if it is not given. @throws ConfigError */
export function readChoice<Choice extends string>(
  text: string | undefined,
  option: string,
  choices: readonly Choice[],
): Choice | undefined {
  const choice = choices.find((one) => one === text)
  if (text === undefined || choice !== undefined) return choice
  throw new ConfigError(`${option}: expected ${anyOf(choices)}, not '${text}'`)
}

/** A day, or a time. `Date.parse` by itself accepts much more: 5 is May 2001. */
const DATE = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/

/** `90d`, `12h`, `30m`, or a date such as 2027-01-31 or 2027-01-31T12:00Z. @throws ConfigError */
export function readMoment(text: string, sign: 1 | -1, option: string): Date {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const time =
    count === undefined
      ? Date.parse(DATE.test(text) ? text : '')
      : Date.now() + sign * Number(count) * { m: 60e3, h: 3600e3, d: 86_400e3 }[unit as 'm' | 'h' | 'd']
  // 31 February would be 3 March.
  const isDay =
    count !== undefined || new Date(`${text.slice(0, 10)}T00:00Z`).getUTCDate() === Number(text.slice(8, 10))
  if (Number.isNaN(time) || !isDay)
    throw new ConfigError(
      `${option}: expected a duration such as 90d or 12h, or a date such as 2027-01-31, not '${text}'`,
    )
  return new Date(time)
}
