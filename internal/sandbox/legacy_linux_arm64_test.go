package sandbox

// legacyUntried are calls of this processor that TestCalls does not make.
var legacyUntried []uint32
