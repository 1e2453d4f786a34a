//! Files that are no captures, told by their first bytes.

/// What the file is, with the fix, where its first bytes are not those of a line of JSON.
pub(super) fn of_another_form(first: &[u8]) -> Option<&'static str> {
    Some(match first {
        [0x1F, 0x8B, ..] => {
            "is compressed with gzip; unpack it (gunzip -k), or send it through a pipe: zcat FILE | settle run, with \
             kind = \"stdin\" in [source]"
        }
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            "is compressed with zstd; unpack it (unzstd), or send it through a pipe: zstdcat FILE | settle run, with \
             kind = \"stdin\" in [source]"
        }
        [0xEF, 0xBB, 0xBF, ..] => {
            "begins with a byte order mark, which an editor put there; remove it: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE"
        }
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            "is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8 FILE > capture.jsonl (PowerShell writes UTF-16 with >)"
        }
        _ => return None,
    })
}
