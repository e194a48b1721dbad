package sdk

// MaxOrder is the highest power of g and of Z in [Moments].
const MaxOrder = 4

// Moments are the raw Gaussian moments of an activation,
//
//	Value[p][q] = E[g(Z)^p·Z^q],  Z ~ N(0,1),  0 ≤ p, q ≤ 4,
//
// and Error[p][q] bounds the numerical error of each.
type Moments struct {
	Value [MaxOrder + 1][MaxOrder + 1]float64
	Error [MaxOrder + 1][MaxOrder + 1]float64
}

// System is the linear system behind the output transforms at noise level
// Sigma (002 Appendix B, METHODS.md §2). With h(p,q) = E[g(Z)^p·He_q(Z)]:
//
//	Matrix·(α, β, γ)ᵀ = RHS      rows q = 1, 2, 3 of Condition 1
//	c4 = C4[0] + C4[1]·α + C4[2]·β + C4[3]·γ
//	Delta[0]·δ = Delta[1]        Condition 2
//	c2 = C2[0] + C2[1]·δ
//
// and Cubic is the third-order twin (001, method 1).
type System struct {
	Sigma  float64
	Matrix [3][3]float64
	RHS    [3]float64
	C4     [4]float64
	Delta  [2]float64
	C2     [2]float64
	Cubic  CubicSystem
}

// CubicSystem is the system of the third-order transform
// P3(y) = y³ + αy² + βy:
//
//	Matrix·(α, β)ᵀ = RHS         rows q = 1, 2
//	c3 = C3[0] + C3[1]·α + C3[2]·β
type CubicSystem struct {
	Matrix [2][2]float64
	RHS    [2]float64
	C3     [3]float64
}
