import { effect, signal } from '@preact/signals'
import { local } from '../storage.ts'
import { IconButton } from './button.tsx'

const THEME = 'lookout-theme'
const system = matchMedia('(prefers-color-scheme: dark)')

/** Null follows the system. */
const chosen = signal<string | null>(local.getItem(THEME))
const isDarkSystem = signal(system.matches)
system.addEventListener('change', () => {
  isDarkSystem.value = system.matches
})

effect(() => {
  if (chosen.value === null) delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = chosen.value
})

export function ThemeButton() {
  const isDark = chosen.value === null ? isDarkSystem.value : chosen.value === 'dark'
  return (
    <IconButton
      icon={isDark ? 'sun' : 'moon'}
      label={isDark ? 'Use light colours' : 'Use dark colours'}
      onClick={() => {
        chosen.value = isDark ? 'light' : 'dark'
        local.setItem(THEME, chosen.value)
      }}
    />
  )
}
