/**
 * String formats as patterns of whole texts. Each matches only texts of that format that validators in JavaScript and
 * Python accept, and leaves out rare ones: a leap second, a quoted mailbox, the year 0.
 */
export interface Format {
  readonly pattern: string
  /** Used with `maxLength`: its counts let the length be enforced where possible. */
  readonly counted?: string
  /** Used with other keywords: it has fewer counts, and so fewer states. */
  readonly uncounted?: string
  /** In characters; a limit that the format requires and that `uncounted` leaves out. */
  readonly maxLength?: number
}

const YEAR = '[1-9]\\d{3}'
const LEAP_YEAR = '(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)'
const DAY = '(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8])'
const DATE = `(?:${YEAR}-(?:${DAY})|${LEAP_YEAR}-02-29)`
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:0\\d|1[0-3]):[0-5]\\d)'
const DATES = '(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)'
const TIMES = 'T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)'

const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = `${BYTE}(?:\\.${BYTE}){3}`
const GROUP = '[0-9A-Fa-f]{1,4}'
const IPV6 = [
  `(?:${GROUP}:){7}${GROUP}`,
  `(?:${GROUP}:){1,6}(?::${GROUP})`,
  ...[2, 3, 4, 5, 6].map((after) => `(?:${GROUP}:){1,${7 - after}}(?::${GROUP}){${after}}`),
  `(?:${GROUP}:){1,7}:`,
  `:(?::${GROUP}){1,7}`,
  '::',
].join('|')

/** At most 62 characters, without two hyphens in a row: most labels that have them are reserved. */
const LABEL = '[a-z0-9]{1,20}(?:-[a-z0-9]{1,20}){0,2}'
const ANY_LABEL = '[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*'
const MAILBOX = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
/** The last label is not a number: a host that ends with one is parsed as an address. */
const HOST = `(?:${LABEL}\\.){0,3}[a-z][a-z0-9]{0,19}(?:-[a-z0-9]{1,20}){0,2}`
const ANY_HOST = `(?:(?:${ANY_LABEL}\\.)*[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*|${IPV4})`
const PORT = '(?::[1-9]\\d{1,3})?'

const IN_PATH = "A-Za-z0-9._~!$&'()*+,;=:@"
const ENCODED = '%[0-9A-F]{2}'
/** Letters of other scripts, such as Greek, Cyrillic, Chinese, Japanese and Korean. */
const LETTERS = 'à-öø-ÿα-ρσ-ωа-я一-鿋ぁ-ゖァ-ヺ가-힣'

/** Listed schemes only, so that a text without a scheme does not become one with an unknown scheme. */
const SCHEMES = '(?:ftps?|sftp|wss?|file|git|ssh|s3|gs|urn|mailto|tel|data|did|doi|tag)'
const ANY_SCHEME = '(?!https?:)[a-z][a-z0-9+.-]*'

/**
 * The part after the host, or a whole reference.
 * @param others allowed characters beyond ASCII.
 */
function tail(others: string): string {
  const rest = `(?:[${IN_PATH}${others}/?-]|${ENCODED})*`
  return `(?:\\?${rest})?(?:#${rest})?`
}

/**
 * @param others allowed characters beyond ASCII.
 * @param schemes other than those of the web.
 */
function uri(others: string, schemes = SCHEMES): string {
  const segment = `(?:[${IN_PATH}${others}-]|${ENCODED})`
  const authority = `(?:[A-Za-z0-9._~-]+@)?[A-Za-z0-9._~-]+(?::\\d{1,5})?`
  const path = `(?:/${segment}*)*`
  const other = `${schemes}:(?://(?:${authority})?${path}|/?${segment}+${path})`
  return `(?:https?://${ANY_HOST}${PORT}${path}|${other})${tail(others)}`
}

/** @param others allowed characters beyond ASCII. */
function reference(others: string, schemes = SCHEMES): string {
  const first = `(?:[A-Za-z0-9._~!$&'()*+,;=@${others}-]|${ENCODED})`
  const segment = `(?:[${IN_PATH}${others}-]|${ENCODED})`
  return `(?:${uri(others, schemes)}|(?:/|/?${first}+(?:/${segment}*)*)?${tail(others)})`
}

const HTTP = `https?://${HOST}${PORT}(?:/[${IN_PATH}/-]{0,1000})?(?:\\?[${IN_PATH}/?-]{0,400})?(?:#[${IN_PATH}/?-]{0,200})?`
const RELATIVE = `(?:${HTTP}|(?:/?[A-Za-z0-9._~@-][A-Za-z0-9._~@/-]{0,1400})?)`
const EMAIL: Format = {
  pattern: `[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30}){0,1}@(?:${LABEL}\\.){1,3}[a-z]{2,10}`,
  uncounted: `${MAILBOX}(?:\\.${MAILBOX})*@(?:${ANY_LABEL}\\.)+[A-Za-z]{2,}`,
}
const POINTER = '(?:/(?:[^~/\\x00-\\x1f]|~[01])*)*'
/** Parts of a regular expression that most engines interpret alike. */
const ATOM =
  '(?:[A-Za-z0-9 _@%&=:;,<>~!"\'/-]|\\\\[dDwWsS.()|+*?^$\\\\/{}[\\]]|\\.|\\[\\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_.])+\\])'
const TERM = `${ATOM}(?:[*+?]|\\{[1-9]\\d?\\})?`
const REGEX = `\\^?(?:${TERM}|\\((?:\\?:)?(?:${TERM})+(?:\\|(?:${TERM})+)*\\)[*+?]?)+\\$?`
const VARIABLE = '\\{[+#./;?&]?[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*\\*?\\}'

export const FORMATS: Readonly<Record<string, Format>> = {
  date: { pattern: DATE },
  time: { pattern: TIME },
  'date-time': { pattern: `${DATE}T${TIME}` },
  'iso-time': { pattern: TIME },
  'iso-date-time': { pattern: `${DATE}T${TIME}` },
  duration: { pattern: `P(?:\\d{1,4}W|${DATES}(?:${TIMES})?|${TIMES})` },
  uuid: { pattern: '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}' },
  email: EMAIL,
  'idn-email': EMAIL,
  hostname: {
    pattern: `${LABEL}(?:\\.${LABEL}){0,3}`,
    uncounted: `${ANY_LABEL}(?:\\.${ANY_LABEL})*`,
    maxLength: 63,
  },
  'idn-hostname': {
    pattern: `[a-z0-9${LETTERS}]{1,12}(?:\\.[a-z0-9${LETTERS}]{1,12}){0,3}`,
  },
  ipv4: { pattern: IPV4 },
  ipv6: { pattern: IPV6 },
  uri: { pattern: uri(''), counted: HTTP, uncounted: uri('', ANY_SCHEME) },
  'uri-reference': { pattern: reference(''), counted: RELATIVE, uncounted: reference('', ANY_SCHEME) },
  iri: { pattern: uri(LETTERS), counted: HTTP, uncounted: uri(LETTERS, ANY_SCHEME) },
  'iri-reference': { pattern: reference(LETTERS), counted: RELATIVE, uncounted: reference(LETTERS, ANY_SCHEME) },
  url: {
    pattern: `https?://(?:${ANY_LABEL}\\.)+[A-Za-z]{2,}${PORT}(?:/(?:[${IN_PATH}/-]|${ENCODED})*${tail('')})?`,
    counted: `https?://(?:${LABEL}\\.){1,3}[a-z]{2,10}(?:/[${IN_PATH}/?-]{0,1400})?`,
  },
  'uri-template': { pattern: `(?:https?://${HOST})?(?:[A-Za-z0-9._~/:?=&-]|${VARIABLE})*` },
  'json-pointer': { pattern: POINTER },
  'relative-json-pointer': { pattern: `(?:0|[1-9]{1,3})(?:#|${POINTER})` },
  regex: { pattern: REGEX },
  byte: { pattern: '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?' },
}
