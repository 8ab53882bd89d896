/** Copies text. @throws DOMException when the browser does not allow it. */
export async function copyText(text: string): Promise<void> {
  // Missing where the page is served over plain HTTP from another machine.
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  const holder = document.querySelector('dialog[open]') ?? document.body
  area.value = text
  area.className = 'hidden'
  holder.append(area)
  const focused = document.activeElement
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  if (!isCopied) throw new DOMException('The browser could not copy the text', 'NotAllowedError')
}
