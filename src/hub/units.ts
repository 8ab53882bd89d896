/** `7.6 GiB`, `12.0 MiB` or `340 B`. */
export function formatBytes(bytes: number): string {
  const power = ['KiB', 'MiB', 'GiB', 'TiB'].findLastIndex(
    (_, index) => Math.abs(bytes) >= 1024 ** (index + 1) * 0.9995,
  )
  if (power < 0) return `${Math.round(bytes)} B`
  return `${(bytes / 1024 ** (power + 1)).toFixed(1)} ${['KiB', 'MiB', 'GiB', 'TiB'][power]}`
}

/** `1 h 05 min`, `4 min 09 s` or `12 s`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds)
  const two = (value: number) => String(value).padStart(2, '0')
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`
}
