/**
 * Replaces control characters, except tabs and line breaks, in a text that may quote an untrusted file or a model: a
 * terminal would obey them.
 */
export function forTerminal(message: string): string {
  return message.replace(/(?!\r\n)[^\P{Cc}\t\n]/gu, '\ufffd')
}
