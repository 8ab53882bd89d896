import { useEffect, useRef } from 'preact/hooks'

/** Further from its end, a list is being read and is left where it is. */
const NEAR_PX = 48

/** Keeps a list that scrolls at its end while it grows, until the user scrolls back. @returns refs of the two */
export function useFollowEnd() {
  const frame = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = frame.current!
    let [isAtEnd, last] = [true, 0]
    const look = () => {
      const { scrollTop, scrollHeight, clientHeight } = element
      const isNear = scrollHeight - scrollTop - clientHeight < NEAR_PX
      // The list may have grown since it was put at its end: only a user scrolls back.
      if (isNear || scrollTop < last) isAtEnd = isNear
      last = scrollTop
    }
    const observer = new ResizeObserver(() => {
      if (isAtEnd) element.scrollTop = element.scrollHeight
      // A taller frame moves the list back by itself, and its event may come when the list is longer again.
      last = element.scrollTop
    })
    element.addEventListener('scroll', look, { passive: true })
    observer.observe(content.current!)
    observer.observe(element)
    return () => {
      element.removeEventListener('scroll', look)
      observer.disconnect()
    }
  }, [])
  return { frame, content }
}
