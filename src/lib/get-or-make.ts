interface Known<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: NoInfer<Value>): unknown
}

/** The value for a key; if there is none, makes and stores it. */
export function getOrMake<Key, Value>(known: Known<Key, Value>, key: Key, make: () => NoInfer<Value>): Value {
  let value = known.get(key)
  if (value === undefined) {
    value = make()
    known.set(key, value)
  }
  return value
}
