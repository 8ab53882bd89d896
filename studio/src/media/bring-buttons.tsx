import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { Button, IconButton } from '../widgets/button.tsx'
import { AddressDialog } from './address-dialog.tsx'
import { CameraDialog } from './camera-dialog.tsx'
import { bringFiles } from './intake.ts'

/** Ways to bring media. @param compact shows icons only */
export function BringButtons({ compact = false }: { readonly compact?: boolean }) {
  const input = useRef<HTMLInputElement>(null)
  const dialog = useSignal<'camera' | 'address' | null>(null)
  const close = () => {
    dialog.value = null
  }
  const ways = [
    { icon: 'folder', label: 'Choose files', act: () => input.current?.click() },
    { icon: 'camera', label: 'Use the camera', act: () => (dialog.value = 'camera') },
    { icon: 'link', label: 'From URL', act: () => (dialog.value = 'address') },
  ] as const
  return (
    <>
      <input
        ref={input}
        type="file"
        class="hidden"
        multiple
        accept="image/*,video/*,audio/*,.heic,.heif,.pdf"
        aria-label="Files"
        tabIndex={-1}
        onChange={(event) => {
          void bringFiles(event.currentTarget.files ?? [])
          event.currentTarget.value = ''
        }}
      />
      {ways.map(({ icon, label, act }, index) =>
        compact ? (
          <IconButton key={icon} icon={icon} label={label} onClick={act} />
        ) : (
          <Button key={icon} icon={icon} kind={index === 0 ? 'primary' : 'plain'} onClick={act}>
            {label}
          </Button>
        ),
      )}
      {dialog.value === 'camera' && <CameraDialog onClose={close} />}
      {dialog.value === 'address' && <AddressDialog onClose={close} />}
    </>
  )
}
