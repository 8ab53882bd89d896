/** Passes on each message only the first time. */
export function tellOnce(tell: (message: string) => void): (message: string) => void {
  const told = new Set<string>()
  return (message) => {
    if (told.has(message)) return
    told.add(message)
    tell(message)
  }
}
