const today = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const earlier = new Intl.DateTimeFormat(undefined, {
  ...{ day: 'numeric', month: 'short' },
  ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
})

/** `14:03:21`, with the day if that is not today's. */
export function timeText(date: Date): string {
  return (date.toDateString() === new Date().toDateString() ? today : earlier).format(date)
}
