const BYTE_UNITS = ['KiB', 'MiB', 'GiB', 'TiB'] as const

/** `7.6 GiB`, `12 MiB` or `340 B`: the units of the command line. Below ten there is one digit after the point. */
export function bytesText(bytes: number): string {
  const power = BYTE_UNITS.findLastIndex((_, index) => bytes >= 1024 ** (index + 1) * 0.9995)
  if (power < 0) return `${Math.round(bytes)} B`
  const value = bytes / 1024 ** (power + 1)
  return `${value.toFixed(value < 9.95 ? 1 : 0)} ${BYTE_UNITS[power]}`
}

/** `3 days 4 h`, `1 h 05 min`, `4 min 09 s` or `12 s`. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds))
  const two = (value: number) => String(value).padStart(2, '0')
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`
  const hours = Math.floor(whole / 3600)
  if (hours < 24) return `${hours} h ${two(Math.floor((whole % 3600) / 60))} min`
  return `${counted(Math.floor(hours / 24), 'day')} ${hours % 24} h`
}

/** `1,234` or `41.6`: tenths only where they say something. */
export function rateText(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 1 : 0 })
}

/** `35 ms` or `1.4 s`, on one line. */
export function millisecondsText(value: number): string {
  return value < 1000 ? `${Math.round(value)}\u00a0ms` : `${(value / 1000).toFixed(1)}\u00a0s`
}

/** `1 token` or `1,234 tokens`. */
export function counted(count: number, one: string): string {
  return `${countText(count)} ${one}${count === 1 ? '' : 's'}`
}

export function countText(value: number): string {
  return value.toLocaleString('en')
}

/** `71 %` of a share from 0 to 1. */
export function shareText(share: number): string {
  return `${Math.round(share * 100)} %`
}

/** `97 %`, of a probability: what is not certain does not look as if it were. */
export function chanceText(share: number): string {
  return `${Math.min(99, Math.max(1, Math.round(share * 100)))}\u00a0%`
}
