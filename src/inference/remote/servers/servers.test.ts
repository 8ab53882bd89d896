import fc from 'fast-check'
import { expect, test } from 'vitest'
import { rendezvous } from './rendezvous.ts'
import type { ModelServer } from './server.ts'
import { type Place, Servers } from './servers.ts'

const named = (names: readonly string[]) =>
  names.map((url) => ({ url, state: 'up', load: 0 }) as unknown as ModelServer & { state: string })
const wanted = (key: string, count = 1, organisation = 'org') => ({ organisation, key, count, workCount: count })
const never = new AbortController().signal
const urls = fc.uniqueArray(fc.webUrl(), { minLength: 2, maxLength: 8 })

test('when a server goes, only its own keys move', () => {
  fc.assert(
    fc.property(urls, fc.array(fc.string(), { minLength: 1 }), fc.nat(), (all, keys, index) => {
      const gone = all[index % all.length]!
      for (const key of keys) {
        const [before] = rendezvous(named(all), key)
        const [after] = rendezvous(named(all.filter((url) => url !== gone)), key)
        if (before!.url !== gone) expect(after!.url).toBe(before!.url)
      }
    }),
  )
})

test('no server takes more than its share while others have room, for any keys', async () => {
  await fc.assert(
    fc.asyncProperty(urls, fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 60 }), async (all, keys) => {
      const servers = new Servers(named(all), 1000)
      for (const key of keys) await servers.place(wanted(key), never)
      const loads = servers.all.map(({ load }) => load)
      const mean = keys.length / all.length
      expect(loads.reduce((sum, load) => sum + load, 0)).toBe(keys.length)
      expect(Math.max(...loads)).toBeLessThanOrEqual(Math.ceil(1.25 * mean) + 1)
    }),
  )
})

test('the same key goes to the same server, and a work of many completions to one', async () => {
  const servers = new Servers(named(['http://a', 'http://b', 'http://c']), 64)
  const places: Place[] = []
  for (let index = 0; index < 16; index++) {
    places.push(await servers.place({ organisation: 'org', key: 'picture', count: 1, workCount: 16 }, never))
  }
  expect(new Set(places.map(({ server }) => server.url)).size).toBe(1)
  for (const place of places) place.release()
  expect(servers.all.map(({ load }) => load)).toEqual([0, 0, 0])
})

test('organisations take turns, and a request that leaves the queue gets no place', async () => {
  const servers = new Servers(named(['http://a']), 1)
  const first = await servers.place(wanted('x'), never)
  const order: string[] = []
  const leaving = new AbortController()
  const gone = servers.place(wanted('x', 1, 'busy'), leaving.signal)
  const waiting = ['busy', 'busy', 'quiet'].map(async (organisation, index) => {
    const place = await servers.place(wanted('x', 1, organisation), never)
    order.push(`${organisation} ${index}`)
    place.release()
  })
  leaving.abort(new Error('left'))
  await expect(gone).rejects.toThrow('left')
  expect(servers.secondsUntilPlaces(1)).toBeGreaterThan(0)
  first.release()
  first.release()
  await Promise.all(waiting)
  expect(order).toEqual(['busy 0', 'quiet 2', 'busy 1'])
})

test('live work waits among other work, and background work for both', async () => {
  const servers = new Servers(named(['http://a']), 1)
  const first = await servers.place(wanted('x'), never)
  const order: string[] = []
  const waiting = (['background', 'live', 'interactive'] as const).map(async (priority) => {
    const place = await servers.place({ ...wanted('x'), priority }, never)
    order.push(priority)
    place.release()
  })
  first.release()
  await Promise.all(waiting)
  expect(order).toEqual(['live', 'interactive', 'background'])
})

test('without a server, waiting requests are told, and later ones do not wait', async () => {
  const all = named(['http://a'])
  const servers = new Servers(all, 1)
  await servers.place(wanted('x'), never)
  const place = servers.place(wanted('x'), never)
  all[0]!.state = 'down'
  servers.failWaiting(new Error('none'))
  await expect(place).rejects.toThrow('none')
  await expect(servers.place(wanted('x'), never)).rejects.toThrow('no server')
})
