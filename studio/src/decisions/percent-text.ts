/** `99.9 %`. What is not quite all or nothing does not look as if it were. */
export function percentText(share: number): string {
  if (share > 0 && share < 0.0005) return '< 0.1 %'
  if (share < 1 && share >= 0.9995) return '> 99.9 %'
  return `${(share * 100).toFixed(1)} %`.replaceAll(' ', '\u00a0')
}
