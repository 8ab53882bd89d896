/** The http(s) address that a text is and nothing else; null for all other texts. */
export function addressIn(text: string): string | null {
  const trimmed = text.trim()
  return /^https?:\/\/\S+$/i.test(trimmed) && URL.canParse(trimmed) ? trimmed : null
}

/** What a file at the address may be called: the last part of its path, or else its host. */
export function nameIn(address: string): string {
  if (address.startsWith('data:')) return 'pasted'
  const { pathname, hostname } = new URL(address)
  const last = pathname.split('/').findLast((part) => part !== '')
  if (last === undefined) return hostname
  try {
    return decodeURIComponent(last)
  } catch {
    return last
  }
}
