"""What a person asks for: a part of the log read again, a position moved, a row explained; the actions of forms too."""
