/** @param samples within -1..1; written with 16 bits each */
export function wavOf(samples: Float32Array, rate: number): Blob {
  const bytes = new DataView(new ArrayBuffer(44 + samples.length * 2))
  const text = (at: number, word: string) => {
    for (let i = 0; i < word.length; i++) bytes.setUint8(at + i, word.charCodeAt(i))
  }
  text(0, 'RIFF')
  bytes.setUint32(4, 36 + samples.length * 2, true)
  text(8, 'WAVEfmt ')
  bytes.setUint32(16, 16, true)
  // PCM, one channel.
  bytes.setUint16(20, 1, true)
  bytes.setUint16(22, 1, true)
  bytes.setUint32(24, rate, true)
  bytes.setUint32(28, rate * 2, true)
  bytes.setUint16(32, 2, true)
  bytes.setUint16(34, 16, true)
  text(36, 'data')
  bytes.setUint32(40, samples.length * 2, true)
  for (let i = 0; i < samples.length; i++) {
    bytes.setInt16(44 + i * 2, Math.round(Math.max(-1, Math.min(1, samples[i]!)) * 32767), true)
  }
  return new Blob([bytes], { type: 'audio/wav' })
}
