export const local = storageOf('localStorage')
export const ofTab = storageOf('sessionStorage')

/** What the browser keeps for the page. Where it keeps nothing, the page's memory. */
function storageOf(name: 'localStorage' | 'sessionStorage'): Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  try {
    // Browsers within apps may have none; others throw as soon as they are asked.
    const storage = globalThis[name] as Storage | null
    if (storage !== null) return storage
  } catch {}
  const items = new Map<string, string>()
  return {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
    removeItem: (key) => void items.delete(key),
  }
}
