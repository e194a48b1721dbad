package sandbox

// failed is the status that a stage exits with after its report.
const failed = 126
