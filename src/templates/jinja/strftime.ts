const MONTHS = 'January February March April May June July August September October November December'.split(' ')
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ')

const padded = (number: number, digits = 2) => String(number).padStart(digits, '0')

/** Python's `datetime.strftime` with the names of its default locale. An unknown directive is left unchanged. */
export function strftime(date: Date, format: string): string {
  const hour = date.getHours()
  const startOfYear = Date.UTC(date.getFullYear(), 0, 0)
  const dayOfYear = (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - startOfYear) / 86_400_000
  const directives: Readonly<Record<string, string>> = {
    Y: String(date.getFullYear()),
    y: padded(date.getFullYear() % 100),
    m: padded(date.getMonth() + 1),
    d: padded(date.getDate()),
    e: String(date.getDate()).padStart(2),
    B: MONTHS[date.getMonth()]!,
    b: MONTHS[date.getMonth()]!.slice(0, 3),
    A: DAYS[date.getDay()]!,
    a: DAYS[date.getDay()]!.slice(0, 3),
    w: String(date.getDay()),
    u: String(date.getDay() || 7),
    j: padded(dayOfYear, 3),
    H: padded(hour),
    I: padded(hour % 12 || 12),
    p: hour < 12 ? 'AM' : 'PM',
    M: padded(date.getMinutes()),
    S: padded(date.getSeconds()),
    f: padded(date.getMilliseconds() * 1000, 6),
    // The time of `datetime.now()` has no zone.
    z: '',
    Z: '',
    '%': '%',
  }
  const whole = format.replace(/%([FTDRhc])/g, (_, letter: 'F') => COMBINED[letter])
  return whole.replace(/%(-?)([A-Za-z%])/g, (text, short: string, letter: string) => {
    const value = directives[letter]
    if (value === undefined) return text
    return short === '' ? value : value.replace(/^[0 ]+(?=.)/, '')
  })
}

const COMBINED = {
  F: '%Y-%m-%d',
  T: '%H:%M:%S',
  D: '%m/%d/%y',
  R: '%H:%M',
  h: '%b',
  c: '%a %b %e %H:%M:%S %Y',
} as const
