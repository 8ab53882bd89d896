import { useEffect, useRef } from 'preact/hooks'

/** @returns a ref of a dialog, which is shown over the page as soon as it is there. */
export function useModal() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return dialog
}
