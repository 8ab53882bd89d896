/** Scrolls a list, and nothing around it, as far as one of its items needs. */
export function keepInView(item: Element | null | undefined): void {
  const list = item?.closest('ul')
  if (!item || !list) return
  // A row of items scrolls with what is beside it.
  const frame =
    list.scrollWidth > list.clientWidth || list.scrollHeight > list.clientHeight ? list : list.parentElement!
  const [inner, outer] = [item.getBoundingClientRect(), frame.getBoundingClientRect()]
  frame.scrollTop += Math.min(0, inner.top - outer.top) + Math.max(0, inner.bottom - outer.bottom)
  frame.scrollLeft += Math.min(0, inner.left - outer.left) + Math.max(0, inner.right - outer.right)
}
