/** How an image of some size is shown in a frame: CSS pixels per image pixel, and where its top-left corner lies. */
export interface Viewport {
  readonly scale: number
  readonly x: number
  readonly y: number
}

export interface Size {
  readonly width: number
  readonly height: number
}

/** At most this many CSS pixels for one pixel of the image. */
const MOST_SCALE = 32
/** Room around an image that is shown whole. */
const MARGIN = 16

/** Shows the whole image in the middle, never enlarged more than twice. */
export function fitted(image: Size, frame: Size): Viewport {
  const room = { width: frame.width - 2 * MARGIN, height: frame.height - 2 * MARGIN }
  const scale = Math.max(0.01, Math.min(room.width / image.width, room.height / image.height, 2))
  return centre(image, frame, scale)
}

function centre(image: Size, frame: Size, scale: number): Viewport {
  return { scale, x: (frame.width - image.width * scale) / 2, y: (frame.height - image.height * scale) / 2 }
}

/** Zooms so that the place of the image under `at` stays there. @param at in CSS pixels of the frame */
export function zoom(view: Viewport, factor: number, at: { x: number; y: number }, image: Size, frame: Size): Viewport {
  const least = Math.min(fitted(image, frame).scale, 1) / 4
  const scale = Math.min(MOST_SCALE, Math.max(least, view.scale * factor))
  const ratio = scale / view.scale
  return { scale, x: at.x - (at.x - view.x) * ratio, y: at.y - (at.y - view.y) * ratio }
}

/** Moves the image; some of it always stays in the frame. */
export function pan(view: Viewport, dx: number, dy: number, image: Size, frame: Size): Viewport {
  const keep = 48
  const within = (value: number, size: number, room: number) => Math.min(room - keep, Math.max(keep - size, value))
  return {
    scale: view.scale,
    x: within(view.x + dx, image.width * view.scale, frame.width),
    y: within(view.y + dy, image.height * view.scale, frame.height),
  }
}

/** Shows an area whole, with room around it. @param area in pixels of the image */
export function show(area: { left: number; top: number; right: number; bottom: number }, frame: Size): Viewport {
  const width = Math.max(8, area.right - area.left)
  const height = Math.max(8, area.bottom - area.top)
  const scale = Math.min(MOST_SCALE, 8, frame.width / (width * 2.5), frame.height / (height * 2.5))
  return {
    scale,
    x: frame.width / 2 - ((area.left + area.right) / 2) * scale,
    y: frame.height / 2 - ((area.top + area.bottom) / 2) * scale,
  }
}

/** The place of the image under a place of the frame, as parts of its width and height within 0..1. */
export function toImage(view: Viewport, at: { x: number; y: number }, image: Size): { x: number; y: number } {
  const within = (value: number) => Math.min(1, Math.max(0, value))
  return {
    x: within((at.x - view.x) / view.scale / image.width),
    y: within((at.y - view.y) / view.scale / image.height),
  }
}
