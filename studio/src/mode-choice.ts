import { signal } from '@preact/signals'

/** The mode on the page: an id of `MODES`. */
export const modeId = signal('ask')
/** What the mode `server` shows. */
export const serverSection = signal<'models' | 'get' | 'load' | 'files'>('models')

/** Address within the page of what `watchLinks` shows. */
export const GET_MODEL = '#get-a-model'

/** Opens "Get a model" for links to it, also those of other pages. @returns a function that stops it. */
export function watchLinks(): () => void {
  const follow = () => {
    if (location.hash !== GET_MODEL) return
    // The same link works again.
    history.replaceState(null, '', location.pathname + location.search)
    serverSection.value = 'get'
    modeId.value = 'server'
  }
  addEventListener('hashchange', follow)
  follow()
  return () => removeEventListener('hashchange', follow)
}
