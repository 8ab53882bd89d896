export const local = storageOf('localStorage')
export const ofTab = storageOf('sessionStorage')

/** What the browser keeps for the page. Where it keeps nothing, and throws as soon as it is asked, the page's memory. */
function storageOf(name: 'localStorage' | 'sessionStorage'): Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  try {
    return globalThis[name]
  } catch {
    const items = new Map<string, string>()
    return {
      getItem: (key) => items.get(key) ?? null,
      setItem: (key, value) => void items.set(key, value),
      removeItem: (key) => void items.delete(key),
    }
  }
}
