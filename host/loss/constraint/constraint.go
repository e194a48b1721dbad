// Package constraint holds a vector θ of parameters to where it may be: coefficients that are the same stay so, and
// gates stay within a bound. A function of θ is that of the θ that it is projected to, and what is here makes of its
// derivatives there, which know of no constraint, those that a climb needs. What is held is given by places in θ.
package constraint
