/**
 * String formats as patterns. Each describes texts of that format only, and leaves out rare ones: a leap day, a leap
 * second, a quoted mailbox.
 */
const YEAR_DAY =
  '\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))'
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:0\\d|1[0-3]):[0-5]\\d)'
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
/** Without two hyphens in a row: most labels with such are reserved, and few of those that encode Unicode are valid. */
const LABEL = '[a-z0-9]{1,31}(?:-[a-z0-9]{1,15}){0,2}'

export const FORMATS: Readonly<Record<string, string>> = {
  date: YEAR_DAY,
  time: TIME,
  'date-time': `${YEAR_DAY}T${TIME}`,
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}',
  email: `[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30}){0,3}@(?:${LABEL}\\.){1,3}[a-z]{2,10}`,
  hostname: `${LABEL}(?:\\.${LABEL}){0,3}`,
  ipv4: `${BYTE}(?:\\.${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}',
  uri: `https?://${LABEL}(?:\\.${LABEL}){0,4}(?:/[A-Za-z0-9._~-]{1,100}){0,20}/?`,
}
