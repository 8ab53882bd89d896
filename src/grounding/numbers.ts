/** A pattern for the integers 0..`last`, without leading zeros. */
export function upTo(last: number): string {
  const digits = String(last)
  const options = ['0']
  if (digits.length > 1) options.push(`[1-9]${anyDigits(digits.length - 2, 0)}`)
  for (let i = 0; i < digits.length; i++) {
    // Numbers with the same digits before this place and a smaller digit here.
    const [first, end] = [i === 0 ? 1 : 0, Number(digits[i]) - 1]
    if (end >= first) options.push(`${digits.slice(0, i)}[${first}-${end}]${anyDigits(digits.length - i - 1)}`)
  }
  if (last > 0) options.push(digits)
  return `(?:${options.join('|')})`
}

function anyDigits(most: number, least = most): string {
  return most === 0 ? '' : `[0-9]{${least},${most}}`
}
