import { useEffect, useRef } from 'preact/hooks'

/** Further from its end, a list is being read and is left where it is. */
const NEAR_PX = 48

/** Keeps a list that scrolls at its end while it grows, until the user scrolls back. @returns refs of the two */
export function useFollowEnd() {
  const frame = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = frame.current!
    let isAtEnd = true
    const look = () => {
      isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX
    }
    const observer = new ResizeObserver(() => {
      if (isAtEnd) element.scrollTop = element.scrollHeight
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
