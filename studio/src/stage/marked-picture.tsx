import { signal, useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Mark } from '../marks/mark.ts'
import { Overlay } from './overlay.tsx'
import type { Size } from './viewport.ts'

interface MarkedPictureProps {
  readonly url: string
  readonly alt: string
  /** Size of the picture that the marks are on, in pixels; the one at `url` may be smaller. */
  readonly size: Size
  readonly marks: readonly Mark[]
}

const NO_DRAFT = signal(null)

/** A picture with its marks, as wide as there is room. */
export function MarkedPicture({ url, alt, size, marks }: MarkedPictureProps) {
  const frame = useRef<HTMLDivElement>(null)
  const scale = useSignal(1)
  useLayoutEffect(() => {
    const measure = () => {
      const { clientWidth: width, style } = frame.current!
      if (width === 0) return
      scale.value = width / size.width
      style.setProperty('--pixel', String(size.width / width))
    }
    const observer = new ResizeObserver(measure)
    observer.observe(frame.current!)
    measure()
    return () => observer.disconnect()
  }, [size.width])
  return (
    <div ref={frame} class="marked-picture" style={{ aspectRatio: `${size.width} / ${size.height}` }}>
      <img src={url} alt={alt} />
      {marks.length > 0 && <Overlay marks={marks} size={size} scale={scale} draft={NO_DRAFT} canEdit={null} />}
    </div>
  )
}
