interface Known<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: NoInfer<Value>): unknown
}

/** What is known for a key; where nothing is, it is made and kept. */
export function getOrMake<Key, Value>(known: Known<Key, Value>, key: Key, make: () => NoInfer<Value>): Value {
  let value = known.get(key)
  if (value === undefined) {
    value = make()
    known.set(key, value)
  }
  return value
}
