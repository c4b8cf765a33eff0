"""Which items are asked, as which text, as which token ids, decoded how."""
