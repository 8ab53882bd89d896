import { useLayoutEffect, useRef } from 'preact/hooks'

/** @returns a ref of a dialog, which is shown over the page as soon as it is there. */
export function useModal() {
  const dialog = useRef<HTMLDialogElement>(null)
  // At once: until the next picture is painted, a key would still be the page's.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  return dialog
}
