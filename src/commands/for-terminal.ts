/** A message that may quote a stranger's file, without what a terminal would obey: all control characters but line breaks. */
export function forTerminal(message: string): string {
  return message.replace(/[^\P{Cc}\n]/gu, '\ufffd')
}
