import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Button } from './button.tsx'
import { copyText } from './copy.ts'

const SHOWN_MS = 2000

/** @param text makes the text when it is wanted. */
export function CopyButton({ text, title }: { readonly text: () => string; readonly title?: string }) {
  const state = useSignal<'' | 'Copied' | 'Not copied'>('')
  const shown = state.value
  useEffect(() => {
    if (shown === '') return
    const timer = setTimeout(() => {
      state.value = ''
    }, SHOWN_MS)
    return () => clearTimeout(timer)
  }, [shown])
  const copy = async () => {
    state.value = await copyText(text()).then(
      () => 'Copied' as const,
      () => 'Not copied' as const,
    )
  }
  return (
    <Button icon={shown === 'Copied' ? 'check' : 'copy'} {...(title ? { title } : {})} onClick={() => void copy()}>
      <span aria-live="polite">{shown || 'Copy'}</span>
    </Button>
  )
}
