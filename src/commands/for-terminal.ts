/**
 * Replaces what a terminal would obey in a text that may quote a stranger's file or a model: all control characters but tabs
 * and line breaks.
 */
export function forTerminal(message: string): string {
  return message.replace(/(?!\r\n)[^\P{Cc}\t\n]/gu, '\ufffd')
}
