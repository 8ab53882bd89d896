/** Scrolls a frame until an item in it is in view, and nothing around the frame. */
export function keepInView(item: Element | null | undefined, frame: Element | null | undefined): void {
  if (!item || !frame) return
  const [inner, outer] = [item.getBoundingClientRect(), frame.getBoundingClientRect()]
  const by = (start: number, end: number) => Math.min(0, start) + Math.max(0, end)
  frame.scrollTop += by(inner.top - outer.top, inner.bottom - outer.bottom)
  frame.scrollLeft += by(inner.left - outer.left, inner.right - outer.right)
}
