/** Outlines on a grid of 24, drawn with lines of 1.75. */
const PATHS = {
  plus: 'M12 5v14M5 12h14',
  minus: 'M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  send: 'M5 12h13M12 6l6 6-6 6',
  stop: 'M7 7h10v10H7z',
  chat: 'M4 5h16v11H9l-5 4z',
  look: 'M4 6h16M4 12h16M4 18h10',
  decide: 'M5 20v-9M12 20V4M19 20v-5',
  detect: 'M4 8V4h4M16 4h4v4M20 16v4h-4M8 20H4v-4M9 9h6v6H9z',
  watch: 'M2 12c2.5-4.5 6-7 10-7s7.5 2.5 10 7c-2.5 4.5-6 7-10 7s-7.5-2.5-10-7zM12 9a3 3 0 1 0 .01 0z',
  structure: 'M9 4c-3 0-3 2-3 4s0 4-2 4c2 0 2 2 2 4s0 4 3 4M15 4c3 0 3 2 3 4s0 4 2 4c-2 0-2 2-2 4s0 4-3 4',
  server: 'M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01',
  code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 12l5 5 9-10',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01',
  video: 'M4 6h11v12H4zM15 10l5-3v10l-5-3',
  audio: 'M5 10v4M9 6v12M13 8v8M17 4v16M21 10v4',
  camera: 'M4 8h4l2-3h4l2 3h4v11H4zM12 10a3.5 3.5 0 1 0 .01 0z',
  link: 'M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1',
  sun: 'M12 8a4 4 0 1 0 .01 0zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5',
  moon: 'M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z',
  folder: 'M3 6h6l2 2h10v11H3z',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  trash: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13',
  key: 'M8 12a4 4 0 1 0 .01 8A4 4 0 0 0 8 12zM11 13l8-8M16 8l3 3',
  clock: 'M12 4a8 8 0 1 0 .01 0zM12 8v4l3 2',
  help: 'M12 3a9 9 0 1 0 .01 0zM9.5 9.5a2.5 2.5 0 1 1 3.7 2.2c-.8.5-1.2.9-1.2 1.8M12 16.5h.01',
  pencil: 'M4 20l1-5L16 4l4 4L9 19z',
  tag: 'M4 12V5h7l9 9-7 7zM8 9h.01',
  undo: 'M9 14L4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3',
  redo: 'M15 14l5-5-5-5M20 9H10a6 6 0 0 0 0 12h3',
  play: 'M8 5l11 7-11 7z',
  pause: 'M8 5v14M16 5v14',
  back: 'M18 6l-8 6 8 6zM6 6v12',
  forward: 'M6 6l8 6-8 6zM18 6v12',
  sound: 'M4 10v4h3l5 4V6L7 10zM16 9a4 4 0 0 1 0 6M18.5 6.5a8 8 0 0 1 0 11',
  muted: 'M4 10v4h3l5 4V6L7 10zM16 10l5 5M21 10l-5 5',
} as const

export type IconName = keyof typeof PATHS

/** Decoration: what it stands for is said by the text or the label of what holds it. */
export function Icon({ name, size = 18 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}
