import { describe, expect, it } from 'vitest'
import { Login } from './digest.ts'

const RFC2617 =
  'Digest realm="testrealm@host.com", qop="auth,auth-int", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41"'
const rfc7616 = (algorithm: string) =>
  `Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=${algorithm}, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
const CNONCE = 'f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ'

function answer(challenges: string[], username: string, password: string, uri = '/dir/index.html', cnonce = CNONCE) {
  const login = new Login(username, password)
  login.challenged(challenges)
  return login.authorization('GET', uri, cnonce)!
}

describe('a login', () => {
  it('answers the examples of RFC 2617 and RFC 7616', () => {
    const first = answer([RFC2617], 'Mufasa', 'Circle Of Life', '/dir/index.html', '0a4f113b')
    expect(first).toContain('response="6629fae49393a05397450978507c4ef1"')
    expect(first).toContain('opaque="5ccc069c403ebaf9f0171e9517f40e41"')
    expect(first).toContain('qop=auth, nc=00000001')
    expect(answer([rfc7616('MD5')], 'Mufasa', 'Circle of Life')).toContain(
      'response="8ca523f5e9506fed4657c9700eebdbec"',
    )
    expect(answer([rfc7616('SHA-256')], 'Mufasa', 'Circle of Life')).toContain(
      'response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"',
    )
  })

  it('answers a camera that knows no qop', () => {
    // From RFC 2069's formula, with the values of RFC 2617.
    const header = answer(
      ['Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"'],
      'Mufasa',
      'Circle Of Life',
    )
    expect(header).toContain('response="670fd8c2df070c60b045671b8b24ff02"')
    expect(header).not.toMatch(/qop|nc=|cnonce/)
  })

  it('takes the first challenge that it knows, but never Basic in place of Digest', () => {
    expect(
      answer([rfc7616('SHA-512-256'), `Basic realm="x", ${rfc7616('MD5')}`], 'Mufasa', 'Circle of Life'),
    ).toContain('algorithm=MD5')
    expect(answer(['Basic realm="x"'], 'Aladdin', 'open sesame')).toBe('Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==')
    expect(() => answer([rfc7616('SHA-512-256'), 'Basic realm="x"'], 'a', 'b')).toThrow('does not know')
    expect(() => answer(['Digest realm="x", nonce="y", qop="auth-int"', 'Basic realm="x"'], 'a', 'b')).toThrow(
      'does not know',
    )
    expect(() => answer([], 'a', 'b')).toThrow('does not know')
  })

  it('counts the uses of a nonce, and gives up when a fresh one changes nothing', () => {
    const login = new Login('a', 'b')
    expect(login.authorization('GET', '/')).toBeNull()
    login.challenged([RFC2617])
    login.authorization('GET', '/')
    login.accepted()
    expect(login.authorization('GET', '/')).toContain('nc=00000002')
    login.challenged([RFC2617])
    expect(login.authorization('GET', '/')).toContain('nc=00000001')
    expect(() => login.challenged([RFC2617])).toThrow('refuses')
  })

  it('gives up a camera that calls every nonce stale', () => {
    const login = new Login('a', 'b')
    const challenge = () => {
      login.challenged([`${RFC2617}, stale=TRUE`])
      login.authorization('GET', '/')
    }
    for (let i = 0; i < 3; i++) challenge()
    expect(challenge).toThrow('refuses')
  })
})
